CREATE TABLE `watched_files` (
	`number` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`folder` text NOT NULL,
	`name` text NOT NULL,
	`bytes` integer NOT NULL,
	`changed_us` integer NOT NULL,
	`device` text NOT NULL,
	`sha256` text,
	`project_id` text NOT NULL,
	`organization_id` text NOT NULL,
	`state` text NOT NULL,
	`upload_id` text,
	`transcription_id` text,
	`result_name` text,
	`moved_to` text,
	`reason` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `watched_files_identity` ON `watched_files` (`folder`,`name`,`bytes`,`changed_us`);
--> statement-breakpoint
CREATE INDEX `watched_files_unfinished` ON `watched_files` (`number`) WHERE state NOT IN ('done', 'failed');
--> statement-breakpoint
CREATE INDEX `watched_files_failed` ON `watched_files` (`folder`,`number`) WHERE state = 'failed';
--> statement-breakpoint
CREATE INDEX `watched_files_by_result` ON `watched_files` (`folder`,`result_name`) WHERE result_name IS NOT NULL;
--> statement-breakpoint
CREATE INDEX `watched_files_by_organization` ON `watched_files` (`organization_id`,`number`);
