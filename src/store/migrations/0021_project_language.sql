ALTER TABLE `projects` ADD `default_language` text;
