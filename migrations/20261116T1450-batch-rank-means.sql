-- A place that is a mean over many searches, as a search console tells it; `position` is the same, rounded. Rows that are there
-- already have none, so nobody has to look through them.
alter table batch.rank add column mean_position real;
alter table batch.rank add constraint rank_mean_fits
  check (mean_position is null or (status = 'ranked' and mean_position >= 1)) not valid;
