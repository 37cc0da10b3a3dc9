CREATE TABLE `audit_log` (
	`sequence` integer PRIMARY KEY NOT NULL,
	`created_at` integer NOT NULL,
	`source` text NOT NULL,
	`actor` text NOT NULL,
	`via` text,
	`action` text NOT NULL,
	`object` text,
	`organization_id` text,
	`before` text,
	`after` text,
	`previous_hash` text NOT NULL,
	`hash` text NOT NULL
);
CREATE INDEX `audit_log_by_object` ON `audit_log` (`object`,`sequence`);
CREATE INDEX `audit_log_by_organization` ON `audit_log` (`organization_id`,`sequence`);
CREATE TRIGGER `audit_log_refuses_update` BEFORE UPDATE ON `audit_log`
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER `audit_log_refuses_delete` BEFORE DELETE ON `audit_log`
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
