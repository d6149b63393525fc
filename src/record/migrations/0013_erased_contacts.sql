-- What a contact did may be more than one transaction can forget: contacts of which something is left. The erasure of
-- their mail works that off, and the row goes with the last of it.
create table erased_contact (
  workspace_id uuid not null,
  erasure_id   uuid not null,
  contact_id   uuid not null,
  primary key (workspace_id, erasure_id, contact_id),
  foreign key (workspace_id, erasure_id) references erasure
);
