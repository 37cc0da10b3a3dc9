CREATE TABLE `outlines` (
	`transcription_id` text PRIMARY KEY NOT NULL,
	`peak_samples` integer NOT NULL,
	`lanes` integer NOT NULL,
	`peaks` blob NOT NULL,
	`points` blob NOT NULL,
	`speech` text,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`transcription_id`) REFERENCES `transcriptions`(`id`) ON UPDATE no action ON DELETE no action
);
