-- Rows that a sweep could not work on. They are left out of its batches and tried on their own, ever more rarely, so that
-- one broken row stops nothing.
create table billing.sweep_failure (
  sweep        text not null,
  subject      text not null,                   -- the subscription, payment, refund or card
  reason       text not null,                   -- type and code of the last failure; never its words
  failures     integer not null,
  first_at     timestamptz not null,
  last_at      timestamptz not null,
  next_try_at  timestamptz not null,            -- real time
  primary key (sweep, subject)
);
