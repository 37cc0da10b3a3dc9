ALTER TABLE `transcriptions` ADD `model_sha256` text;
