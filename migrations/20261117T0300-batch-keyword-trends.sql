-- How searches for a keyword went, as ratios of the highest value in one answer: a row is one answer of a source, and the next one
-- takes its place whole, because it has another scale. Ratios are no searches and never become volumes.
create table batch.keyword_trend (
  key       text collate "C" not null,
  source    text collate "C" not null,
  every     text not null check (every in ('date', 'week', 'month')),
  from_day  date not null,
  to_day    date not null,
  series    jsonb not null check (jsonb_typeof(series) = 'array'), -- [["2026-10-01", 83.2], ...]; what is missing was not told
  asked_on  date not null,                                         -- service time
  check (from_day <= to_day),
  primary key (key, source)
);
