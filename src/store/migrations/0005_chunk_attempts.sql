ALTER TABLE `chunks` ADD `attempt` text DEFAULT '' NOT NULL;
