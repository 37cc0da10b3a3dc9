ALTER TABLE `transcriptions` ADD `numerals` text;
--> statement-breakpoint
ALTER TABLE `transcriptions` ADD `script` text;
