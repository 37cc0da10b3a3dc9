ALTER TABLE `transcriptions` ADD `awaits_audio` integer DEFAULT false NOT NULL;
--> statement-breakpoint
DROP INDEX `transcriptions_queued_by_age`;
--> statement-breakpoint
DROP INDEX `transcriptions_queued_by_work`;
--> statement-breakpoint
CREATE INDEX `transcriptions_queued_by_age` ON `transcriptions` (`organization_id`,`project_id`,`id`) WHERE state = 'queued' AND awaits_audio = 0;
--> statement-breakpoint
CREATE INDEX `transcriptions_queued_by_work` ON `transcriptions` (`organization_id`,`project_id`,(`duration_ms` * CASE `channel_mode` WHEN 'separate' THEN `channels` ELSE 1 END),`id`) WHERE state = 'queued' AND awaits_audio = 0;
--> statement-breakpoint
CREATE INDEX `transcriptions_awaiting` ON `transcriptions` (`organization_id`,`id`) WHERE state = 'queued' AND awaits_audio = 1;
--> statement-breakpoint
CREATE TABLE `fetches` (
	`transcription_id` text PRIMARY KEY NOT NULL,
	`upload_id` text NOT NULL,
	`organization_id` text NOT NULL,
	`source` text NOT NULL,
	`sealed_address` text,
	`total_bytes` integer,
	`validator` text,
	`attempts` integer DEFAULT 0 NOT NULL,
	`next_attempt_at` integer,
	`reason` text,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`transcription_id`) REFERENCES `transcriptions`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`upload_id`) REFERENCES `uploads`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `fetches_due` ON `fetches` (`organization_id`,`next_attempt_at`) WHERE next_attempt_at IS NOT NULL;
--> statement-breakpoint
CREATE INDEX `fetches_by_upload` ON `fetches` (`upload_id`);
--> statement-breakpoint
CREATE TABLE `buckets` (
	`organization_id` text NOT NULL,
	`name` text NOT NULL,
	`endpoint` text NOT NULL,
	`region` text NOT NULL,
	`access_key` text NOT NULL,
	`sealed_secret` text NOT NULL,
	`is_private` integer DEFAULT false NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`organization_id`, `name`),
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `result_copies` (
	`transcription_id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`target` text NOT NULL,
	`formats` text NOT NULL,
	`attempts` integer DEFAULT 0 NOT NULL,
	`next_attempt_at` integer,
	`written_at` integer,
	`reason` text,
	FOREIGN KEY (`transcription_id`) REFERENCES `transcriptions`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `result_copies_due` ON `result_copies` (`organization_id`,`next_attempt_at`) WHERE next_attempt_at IS NOT NULL;
