ALTER TABLE `transcriptions` ADD `metadata` text;
CREATE TABLE `transcription_metadata` (
	`project_id` text NOT NULL,
	`name` text NOT NULL,
	`value` text NOT NULL,
	`transcription_id` text NOT NULL,
	PRIMARY KEY(`project_id`, `name`, `value`, `transcription_id`)
) WITHOUT ROWID;
CREATE TRIGGER `transcriptions_metadata_added` AFTER INSERT ON `transcriptions` WHEN new.`metadata` IS NOT NULL
BEGIN
	INSERT INTO `transcription_metadata` SELECT new.`project_id`, `key`, `value`, new.`id` FROM json_each(new.`metadata`);
END;
CREATE TRIGGER `transcriptions_metadata_changed` AFTER UPDATE OF `metadata` ON `transcriptions` WHEN new.`metadata` IS NOT old.`metadata`
BEGIN
	DELETE FROM `transcription_metadata` WHERE `project_id` = old.`project_id` AND `transcription_id` = old.`id`
	AND (`name`, `value`) IN (SELECT `key`, `value` FROM json_each(old.`metadata`));
	INSERT INTO `transcription_metadata` SELECT new.`project_id`, `key`, `value`, new.`id` FROM json_each(new.`metadata`);
END;
CREATE TRIGGER `transcriptions_metadata_removed` AFTER DELETE ON `transcriptions` WHEN old.`metadata` IS NOT NULL
BEGIN
	DELETE FROM `transcription_metadata` WHERE `project_id` = old.`project_id` AND `transcription_id` = old.`id`
	AND (`name`, `value`) IN (SELECT `key`, `value` FROM json_each(old.`metadata`));
END;
