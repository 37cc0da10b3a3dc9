ALTER TABLE `chunks` ADD `doubts` text;
