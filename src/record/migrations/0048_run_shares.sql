-- The runs of each workspace in the order in which they are due: where many are, each workspace has a share of those that
-- are taken up together.
create index run_due on run (workspace_id, wake_at) where wake_at is not null and not is_held;
