ALTER TABLE `uploads` ADD `reading` text;
