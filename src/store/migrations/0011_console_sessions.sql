CREATE TABLE `console_secrets` (
	`hash` text PRIMARY KEY NOT NULL,
	`kind` text NOT NULL,
	`made_by` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL
);
