ALTER TABLE `uploads` ADD `api_key_id` text;
CREATE INDEX `uploads_open` ON `uploads` (`organization_id`,`expires_at`) WHERE state IN ('allocated', 'verifying');
