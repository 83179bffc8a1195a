-- How far an import of a file has come. It moves in the transaction that stores the rows, and goes when the file is done.
create table batch.import_progress (
  id             text primary key,             -- what is imported into what: kind, workspace and the file's fingerprint
  bytes          bigint not null,              -- of the file: all before this is stored
  lines          bigint not null,
  inserted       bigint not null,
  updated        bigint not null,
  unchanged      bigint not null,
  rejected       bigint not null,
  rejects_bytes  bigint not null,              -- length of the file of rejected lines that belongs to this point
  updated_at     timestamptz not null
);
