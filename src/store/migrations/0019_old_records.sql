CREATE INDEX `uploads_rejected` ON `uploads` (`finished_at`) WHERE state = 'rejected';
CREATE INDEX `webhook_endpoints_removed` ON `webhook_endpoints` (`removed_at`) WHERE removed_at IS NOT NULL;
