DROP INDEX `deliveries_due`;
CREATE INDEX `deliveries_due` ON `deliveries` (`endpoint_id`,`next_attempt_at`,`event_id`) WHERE state = 'pending';
