DROP INDEX `transcriptions_queued`;
CREATE INDEX `transcriptions_queued_by_age` ON `transcriptions` (`organization_id`,`project_id`,`id`) WHERE state = 'queued';
CREATE INDEX `transcriptions_queued_by_work` ON `transcriptions` (`organization_id`,`project_id`,(`duration_ms` * CASE `channel_mode` WHEN 'separate' THEN `channels` ELSE 1 END),`id`) WHERE state = 'queued';
