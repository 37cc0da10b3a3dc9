CREATE INDEX `transcriptions_by_state` ON `transcriptions` (`project_id`,`state`,`id`);
