-- What a model expects of a series, told from what was known on a day, and what then came true. The newest one of a series
-- is what callers see; the others are its history, kept for 400 days.
create table batch.prediction (
  workspace_id   text collate "C" not null,
  keyword_id     bigint not null,
  engine         text collate "C" not null,
  device         text collate "C" not null,
  location       text collate "C" not null,
  day            date not null,
  model_id       text not null references batch.model (id),
  horizon_days   smallint not null,
  rise           double precision not null,
  hold           double precision not null,
  fall           double precision not null,
  predicted      text not null check (predicted in ('rise', 'hold', 'fall')),
  usable_days    integer not null,             -- of the series so far: the one with most speaks for its keyword
  naive_sign     smallint not null,            -- what its model's naive rule saw, to hold the two against each other
  features       text[] not null,              -- that moved it most, the strongest first, and by how much
  contributions  double precision[] not null,
  predicted_at   timestamptz not null,
  outcome        text check (outcome in ('rise', 'hold', 'fall')), -- null: not known yet, or never told
  settled_at     timestamptz,
  primary key (workspace_id, keyword_id, engine, device, location, day),
  check ((outcome is null) = (settled_at is null))
);
create index prediction_open on batch.prediction (workspace_id, keyword_id, engine, device, location, day)
  where outcome is null;
create index prediction_age on batch.prediction (day);
