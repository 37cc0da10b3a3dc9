ALTER TABLE `transcriptions` ADD `streamed_ms` integer NOT NULL DEFAULT 0;
