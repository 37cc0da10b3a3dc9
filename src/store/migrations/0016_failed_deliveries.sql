CREATE INDEX `deliveries_failed` ON `deliveries` (`endpoint_id`) WHERE state = 'failed';
