-- The reason for which a workspace was resumed, in the operator's words, as suspended_for is for the suspension.
alter table workspace add column resumed_for text;
