-- Observations of volumes from before this day were dropped by `retention`. The monthly volumes that were made of them stay.
create table batch.volume_horizon (
  single    boolean primary key default true check (single),
  kept_from date not null check (extract(day from kept_from) = 1)
);
