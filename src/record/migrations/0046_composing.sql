-- How often a worker has begun to compose the one e-mail of this bag and did not come to the end of it. Written only where
-- several workers have ended while they held the bag, since that alone may have other reasons.
alter table bag add column composing smallint not null default 0;
