-- What is larger than a piece is kept in pieces, each a row and a transaction of its own, so that no burst of megabytes
-- stands in the log before the commits of others. A piece has the hash of the whole with its number behind it; the whole
-- has no content. A version before this one takes that for content that is gone, so pieces are written a day after this
-- migration, or at once in a database that begins with it.
alter table attachment alter column content drop not null;
