ALTER TABLE `transcriptions` ADD `task` text;
