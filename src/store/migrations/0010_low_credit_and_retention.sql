ALTER TABLE `organizations` ADD `low_credit_paise` integer;
ALTER TABLE `organizations` ADD `low_credit_at` integer;
ALTER TABLE `projects` ADD `audio_days` integer;
ALTER TABLE `projects` ADD `transcript_days` integer;
DROP INDEX `transcriptions_kept`;
CREATE INDEX `transcriptions_kept` ON `transcriptions` (`project_id`,`finished_at`,`id`) WHERE content_deleted_at IS NULL;
DROP INDEX `uploads_kept`;
CREATE INDEX `uploads_kept` ON `uploads` (`project_id`,`finished_at`) WHERE deleted_at IS NULL;
