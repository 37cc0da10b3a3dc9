ALTER TABLE `transcriptions` ADD `history` text NOT NULL DEFAULT '[]';
ALTER TABLE `transcriptions` ADD `work` text;
ALTER TABLE `transcriptions` ADD `retry_of_id` text;
CREATE INDEX `transcriptions_by_retry` ON `transcriptions` (`retry_of_id`) WHERE retry_of_id IS NOT NULL;
ALTER TABLE `uploads` ADD `history` text NOT NULL DEFAULT '[]';
ALTER TABLE `uploads` ADD `stored_sha256` text;
