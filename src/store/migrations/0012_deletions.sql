CREATE TABLE `receipts` (
	`id` text PRIMARY KEY NOT NULL,
	`object` text NOT NULL,
	`organization_id` text NOT NULL,
	`created_at` integer NOT NULL,
	`signed` text NOT NULL,
	`mirrored_at` integer
);
CREATE INDEX `receipts_by_object` ON `receipts` (`object`);
CREATE INDEX `receipts_by_organization` ON `receipts` (`organization_id`,`id`);
CREATE INDEX `receipts_to_mirror` ON `receipts` (`id`) WHERE mirrored_at IS NULL;
ALTER TABLE `organizations` ADD `purge_started_at` integer;
ALTER TABLE `organizations` ADD `purged_at` integer;
