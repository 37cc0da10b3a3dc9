CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`project_id` text NOT NULL,
	`name` text NOT NULL,
	`public_id` text NOT NULL,
	`hash` text NOT NULL,
	`scopes` text NOT NULL,
	`created_at` integer NOT NULL,
	`last_used_at` integer,
	`expires_at` integer,
	`revoked_at` integer,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE no action
);

CREATE UNIQUE INDEX `api_keys_by_public_id` ON `api_keys` (`public_id`);
CREATE INDEX `api_keys_by_project` ON `api_keys` (`project_id`);
CREATE TABLE `chunks` (
	`transcription_id` text NOT NULL,
	`position` integer NOT NULL,
	`channel` integer NOT NULL,
	`start_ms` integer NOT NULL,
	`end_ms` integer NOT NULL,
	`speech_ms` integer NOT NULL,
	`regions` text NOT NULL,
	`state` text NOT NULL,
	`failures` integer DEFAULT 0 NOT NULL,
	`crashes` integer DEFAULT 0 NOT NULL,
	`segments` text,
	`warnings` text,
	`gap_reason` text,
	PRIMARY KEY(`transcription_id`, `position`),
	FOREIGN KEY (`transcription_id`) REFERENCES `transcriptions`(`id`) ON UPDATE no action ON DELETE no action
);

CREATE TABLE `daily_charges` (
	`organization_id` text NOT NULL,
	`day` text NOT NULL,
	`charged_paise` integer NOT NULL,
	PRIMARY KEY(`organization_id`, `day`)
);

CREATE TABLE `deliveries` (
	`event_id` text PRIMARY KEY NOT NULL,
	`endpoint_id` text NOT NULL,
	`state` text NOT NULL,
	`attempts` integer DEFAULT 0 NOT NULL,
	`next_attempt_at` integer,
	`delivered_at` integer,
	`failed_at` integer,
	FOREIGN KEY (`event_id`) REFERENCES `events`(`id`) ON UPDATE no action ON DELETE cascade
);

CREATE INDEX `deliveries_due` ON `deliveries` (`next_attempt_at`) WHERE state = 'pending';
CREATE INDEX `deliveries_by_endpoint` ON `deliveries` (`endpoint_id`,`event_id`);
CREATE TABLE `delivery_attempts` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`event_id` text NOT NULL,
	`started_at` integer NOT NULL,
	`duration_ms` integer NOT NULL,
	`status` integer,
	`error` text,
	FOREIGN KEY (`event_id`) REFERENCES `events`(`id`) ON UPDATE no action ON DELETE cascade
);

CREATE INDEX `delivery_attempts_by_event` ON `delivery_attempts` (`event_id`);
CREATE TABLE `events` (
	`id` text PRIMARY KEY NOT NULL,
	`transcription_id` text NOT NULL,
	`endpoint_id` text NOT NULL,
	`type` text NOT NULL,
	`body` text NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`endpoint_id`) REFERENCES `webhook_endpoints`(`id`) ON UPDATE no action ON DELETE no action
);

CREATE INDEX `events_by_endpoint` ON `events` (`endpoint_id`,`id`);
CREATE TABLE `idempotency_keys` (
	`project_id` text NOT NULL,
	`entrance` text NOT NULL,
	`key` text NOT NULL,
	`request_hash` text NOT NULL,
	`transcription_id` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	PRIMARY KEY(`project_id`, `entrance`, `key`)
);

CREATE INDEX `idempotency_keys_by_expiry` ON `idempotency_keys` (`expires_at`);
CREATE TABLE `ledger` (
	`sequence` integer PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`kind` text NOT NULL,
	`amount_paise` integer NOT NULL,
	`transcription_id` text,
	`note` text,
	`created_at` integer NOT NULL,
	`previous_hash` text NOT NULL,
	`hash` text NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action
);

CREATE INDEX `ledger_by_organization` ON `ledger` (`organization_id`,`sequence`);
CREATE UNIQUE INDEX `ledger_once` ON `ledger` (`transcription_id`,`kind`) WHERE transcription_id IS NOT NULL;
CREATE TABLE `organizations` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`created_at` integer NOT NULL,
	`disabled_at` integer,
	`price_paise_per_audio_hour` integer,
	`daily_spend_limit_paise` integer,
	`max_queued` integer,
	`requests_per_second` integer,
	`weight` integer DEFAULT 1 NOT NULL,
	`balance_paise` integer DEFAULT 0 NOT NULL,
	`reserved_paise` integer DEFAULT 0 NOT NULL
);

CREATE TABLE `projects` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`name` text NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`organization_id`) REFERENCES `organizations`(`id`) ON UPDATE no action ON DELETE no action
);

CREATE INDEX `projects_by_organization` ON `projects` (`organization_id`);
CREATE TABLE `results` (
	`transcription_id` text PRIMARY KEY NOT NULL,
	`result` text NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`transcription_id`) REFERENCES `transcriptions`(`id`) ON UPDATE no action ON DELETE no action
);

CREATE TABLE `settings` (
	`name` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL,
	`updated_at` integer NOT NULL
);

CREATE TABLE `transcriptions` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`project_id` text NOT NULL,
	`upload_id` text NOT NULL,
	`entrance` text NOT NULL,
	`model_id` text NOT NULL,
	`model_version` text NOT NULL,
	`language` text NOT NULL,
	`mode` text NOT NULL,
	`timestamps` text NOT NULL,
	`diarization` integer NOT NULL,
	`min_speakers` integer,
	`max_speakers` integer,
	`channel_mode` text NOT NULL,
	`webhook_endpoint_id` text,
	`state` text NOT NULL,
	`created_at` integer NOT NULL,
	`started_at` integer,
	`finished_at` integer,
	`content_deleted_at` integer,
	`error_code` text,
	`error_message` text,
	`duration_ms` integer NOT NULL,
	`channels` integer NOT NULL,
	`price_paise_per_audio_hour` integer NOT NULL,
	`reserved_paise` integer NOT NULL,
	`progress_ms` integer DEFAULT 0 NOT NULL,
	`audio_warnings` text,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`upload_id`) REFERENCES `uploads`(`id`) ON UPDATE no action ON DELETE no action
);

CREATE INDEX `transcriptions_by_project` ON `transcriptions` (`project_id`,`id`);
CREATE INDEX `transcriptions_unfinished` ON `transcriptions` (`organization_id`,`id`) WHERE state IN ('queued', 'preparing', 'transcribing', 'finalizing');
CREATE INDEX `transcriptions_queued` ON `transcriptions` (`organization_id`,`id`) WHERE state = 'queued';
CREATE INDEX `transcriptions_by_upload` ON `transcriptions` (`upload_id`);
CREATE INDEX `transcriptions_kept` ON `transcriptions` (`finished_at`) WHERE content_deleted_at IS NULL;
CREATE TABLE `uploads` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`project_id` text NOT NULL,
	`state` text NOT NULL,
	`bytes` integer NOT NULL,
	`sha256` text,
	`token_hash` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`finished_at` integer,
	`duration_ms` integer,
	`channels` integer,
	`sample_rate_hz` integer,
	`truncated` integer DEFAULT false NOT NULL,
	`error_code` text,
	`error_message` text,
	`deleted_at` integer,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE no action
);

CREATE INDEX `uploads_by_project` ON `uploads` (`project_id`,`id`);
CREATE INDEX `uploads_unfinished` ON `uploads` (`expires_at`) WHERE state IN ('allocated', 'verifying');
CREATE INDEX `uploads_kept` ON `uploads` (`finished_at`) WHERE deleted_at IS NULL;
CREATE TABLE `usage_events` (
	`id` text PRIMARY KEY NOT NULL,
	`organization_id` text NOT NULL,
	`project_id` text NOT NULL,
	`transcription_id` text NOT NULL,
	`model_id` text NOT NULL,
	`state` text NOT NULL,
	`audio_ms` integer NOT NULL,
	`billed_ms` integer NOT NULL,
	`channels` integer NOT NULL,
	`amount_paise` integer NOT NULL,
	`created_at` integer NOT NULL
);

CREATE INDEX `usage_events_by_project` ON `usage_events` (`project_id`,`id`);
CREATE INDEX `usage_events_by_organization` ON `usage_events` (`organization_id`,`id`);
CREATE UNIQUE INDEX `usage_events_once` ON `usage_events` (`transcription_id`);
CREATE TABLE `webhook_endpoints` (
	`id` text PRIMARY KEY NOT NULL,
	`project_id` text NOT NULL,
	`organization_id` text NOT NULL,
	`url` text NOT NULL,
	`secret` text NOT NULL,
	`previous_secret` text,
	`previous_secret_expires_at` integer,
	`created_at` integer NOT NULL,
	`disabled_at` integer,
	`disabled_reason` text,
	`removed_at` integer,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE no action
);

CREATE INDEX `webhook_endpoints_by_project` ON `webhook_endpoints` (`project_id`,`id`);
CREATE TRIGGER `ledger_refuses_update` BEFORE UPDATE ON `ledger`
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER `ledger_refuses_delete` BEFORE DELETE ON `ledger`
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER `usage_events_refuse_update` BEFORE UPDATE ON `usage_events`
BEGIN SELECT RAISE(ABORT, 'usage events do not change'); END;

CREATE TRIGGER `usage_events_refuse_delete` BEFORE DELETE ON `usage_events`
BEGIN SELECT RAISE(ABORT, 'usage events do not change'); END;
