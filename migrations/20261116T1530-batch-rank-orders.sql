-- Searches that a source reads later: each is ordered, waited for and collected.
alter table batch.rank_check drop constraint rank_check_status_check;
alter table batch.rank_check add constraint rank_check_status_check
  check (status in ('due', 'asked', 'ordered', 'done', 'failed')) not valid;
create index rank_check_ordered on batch.rank_check (closes_at) where status = 'ordered';

-- All processes look at lists of ready orders by this, in real time.
alter table batch.source add column next_look_at timestamptz not null default '-infinity';

-- One order for a check. It is written before it leaves, so that what a crash lost is found again by its tag.
create table batch.rank_order (
  workspace_id  text collate "C" not null,
  tracker_id    text collate "C" not null,
  day           date not null,
  keyword_id    bigint not null,
  number        smallint not null,             -- the how-manieth of its check
  source        text collate "C" not null,
  tag           text collate "C" not null,     -- a hash of this place and of what is asked
  order_id      text,                          -- the source's name for it; null: nobody knows whether it was taken
  engine        text collate "C" not null,     -- what was asked, whatever became of the tracker since
  device        text collate "C" not null,
  location      text collate "C" not null,
  depth         smallint not null,
  state         text not null default 'waiting' check (state in ('waiting', 'done', 'lost', 'dropped')),
  is_ready      boolean not null default false, -- the list named it, and will not again once it was collected
  ordered_at    timestamptz not null,          -- service time
  look_at       timestamptz not null,          -- service time: nobody looks for it before
  spent_on      date not null,                 -- the day whose budget it was taken from
  primary key (workspace_id, tracker_id, day, keyword_id, number),
  unique (source, tag),
  foreign key (workspace_id, tracker_id, day, keyword_id) references batch.rank_check on delete cascade
);
create unique index rank_order_one_waits on batch.rank_order (workspace_id, tracker_id, day, keyword_id)
  where state = 'waiting';
create index rank_order_waiting on batch.rank_order (source, look_at) where state = 'waiting';
create index rank_order_ended on batch.rank_order (ordered_at) where state <> 'waiting';
