ALTER TABLE `organizations` ADD `max_stored_bytes` integer;
ALTER TABLE `organizations` ADD `stored_bytes` integer DEFAULT 0 NOT NULL;
ALTER TABLE `uploads` ADD `space_bytes` integer DEFAULT 0 NOT NULL;
UPDATE `uploads` SET `space_bytes` = CASE `state` WHEN 'allocated' THEN min(`bytes`, 8388608) ELSE `bytes` END
WHERE `deleted_at` IS NULL AND `state` <> 'rejected';
UPDATE `organizations` SET `stored_bytes` = (
	SELECT coalesce(sum(`space_bytes`), 0) FROM `uploads` WHERE `uploads`.`organization_id` = `organizations`.`id`
);
CREATE TRIGGER `uploads_space_added` AFTER INSERT ON `uploads` WHEN new.`space_bytes` <> 0
BEGIN
	UPDATE `organizations` SET `stored_bytes` = `stored_bytes` + new.`space_bytes` WHERE `id` = new.`organization_id`;
END;
CREATE TRIGGER `uploads_space_changed` AFTER UPDATE OF `space_bytes` ON `uploads` WHEN new.`space_bytes` <> old.`space_bytes`
BEGIN
	UPDATE `organizations` SET `stored_bytes` = `stored_bytes` + new.`space_bytes` - old.`space_bytes` WHERE `id` = new.`organization_id`;
END;
CREATE TRIGGER `uploads_space_removed` AFTER DELETE ON `uploads` WHEN old.`space_bytes` <> 0
BEGIN
	UPDATE `organizations` SET `stored_bytes` = `stored_bytes` - old.`space_bytes` WHERE `id` = old.`organization_id`;
END;
CREATE TRIGGER `uploads_space_ended` AFTER UPDATE OF `deleted_at` ON `uploads` WHEN new.`deleted_at` IS NOT NULL AND new.`space_bytes` <> 0
BEGIN
	UPDATE `uploads` SET `space_bytes` = 0 WHERE `id` = new.`id`;
END;
