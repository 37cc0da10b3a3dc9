ALTER TABLE `webhook_endpoints` ADD `events` text DEFAULT '[]' NOT NULL;
CREATE INDEX `webhook_endpoints_subscribed` ON `webhook_endpoints` (`organization_id`) WHERE events <> '[]';
ALTER TABLE `events` ADD `about_id` text;
UPDATE `events` SET `about_id` = `transcription_id`;
ALTER TABLE `events` DROP COLUMN `transcription_id`;
ALTER TABLE `events` RENAME COLUMN `about_id` TO `transcription_id`;
