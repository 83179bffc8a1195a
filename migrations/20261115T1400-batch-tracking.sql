-- What a workspace wants to have checked by itself. One tracker writes one series of its workspace.
create table batch.tracker (
  workspace_id    text collate "C" not null,
  id              text collate "C" not null,
  site            text not null,
  match           text not null check (match in ('host', 'domain', 'prefix', 'regex')),
  engine          text collate "C" not null,
  device          text collate "C" not null,
  location        text collate "C" not null,
  language        text,
  depth           smallint not null check (depth between 1 and 10000),
  source          text collate "C" not null,
  every           text not null check (every in ('day', 'week', 'month')),
  window_from     text not null,               -- as the clocks of the zone show it: 01:00
  window_to       text not null,               -- not later than window_from: it ends on the next day; 24:00 is midnight
  zone            text not null,
  keyword_keys    text[],                      -- null: every keyword of the workspace
  keyword_texts   text[],                      -- the same as they were written
  budget_per_day  integer check (budget_per_day >= 0),
  anchor_day      date not null,               -- weeks and months are counted from it, so that they never drift
  next_day        date not null,               -- the next day without a plan
  next_plan_at    timestamptz not null,        -- service time: when its window opens
  last_check_at   timestamptz,
  created_at      timestamptz not null,
  check ((keyword_keys is null) = (keyword_texts is null)),
  primary key (workspace_id, id),
  unique (workspace_id, engine, device, location)
);
create index tracker_due on batch.tracker (next_plan_at);

-- One check of one keyword on one day. A row is written before anything is sent, so that what a crash lost is known.
create table batch.rank_check (
  workspace_id  text collate "C" not null,
  tracker_id    text collate "C" not null,
  day           date not null,
  keyword_id    bigint not null,
  source        text collate "C" not null,
  due_at        timestamptz not null,          -- service time: the slot, or when to try again
  closes_at     timestamptz not null,          -- service time: what is not done by then has failed for the day
  status        text not null default 'due' check (status in ('due', 'asked', 'done', 'failed')),
  tries         smallint not null default 0 check (tries between 0 and 3),
  by_hand       boolean not null default false,
  reserved      smallint not null default 0 check (reserved >= 0), -- paid calls set aside while it is asked
  spent_on      date,                          -- the day whose budget they were taken from
  asked_by      text,                          -- who asked; somebody else at work means that this one was lost
  reason        text,                          -- what went wrong last
  primary key (workspace_id, tracker_id, day, keyword_id),
  foreign key (workspace_id, tracker_id) references batch.tracker on delete cascade,
  check ((status = 'asked') = (asked_by is not null))
);
create index rank_check_due on batch.rank_check (source, due_at) where status = 'due';
create index rank_check_closing on batch.rank_check (closes_at) where status = 'due';
create index rank_check_asked on batch.rank_check (source) where status = 'asked';
create index rank_check_by_hand on batch.rank_check (due_at) where status = 'due' and by_hand;

-- How each source fares. All processes pace themselves by next_send_at.
create table batch.source (
  name           text collate "C" primary key,
  next_send_at   timestamptz not null default '-infinity', -- real time: no call leaves before
  throttles      smallint not null default 0,              -- "too many requests" in a row
  state          text not null default 'ready' check (state in ('ready', 'resting', 'refused')),
  until          timestamptz,                              -- service time: when it is asked again
  recent_good    integer not null default 0,
  recent_failed  integer not null default 0,
  credentials    text,                                     -- a hash: new credentials end a refusal
  last_error     text,
  last_error_at  timestamptz,
  check ((state = 'ready') = (until is null))
);

-- Paid calls of a day, by whose budget they count against: the installation's (''), a workspace's or a tracker's.
create table batch.source_spending (
  source    text collate "C" not null,
  day       date not null,
  scope     text collate "C" not null,
  reserved  integer not null default 0 check (reserved >= 0), -- set aside for calls under way
  spent     integer not null default 0 check (spent >= 0),
  lost      integer not null default 0 check (lost >= 0),     -- of those spent: paid perhaps, and the answer never stored
  primary key (source, day, scope)
);

-- Which keywords a volume source has been asked for, and when in vain.
create table batch.volume_check (
  source    text collate "C" not null,
  key       text collate "C" not null,
  month     date not null,
  status    text not null check (status in ('asked', 'done', 'no_data', 'failed')),
  tries     smallint not null default 1,
  reason    text,
  call      text,                              -- the call it was last asked in, with up to a thousand others
  spent_on  date not null,
  primary key (source, month, key)
);
