-- What each look at a tracker and each run would otherwise go through all checks, trackers or tokens for.

-- The checks of one tracker in the order in which they are taken: others may have millions due at the same source.
create index rank_check_of_tracker on batch.rank_check (workspace_id, tracker_id, due_at, keyword_id) where status = 'due';
-- Checks that have had their last try, and are to end. Nearly always there is none.
create index rank_check_tried_out on batch.rank_check (closes_at) where status = 'due' and tries >= 3;
-- Checks that came back, or were asked for by hand: their tracker may have another source by now.
create index rank_check_back on batch.rank_check (workspace_id, tracker_id)
  where status = 'due' and (by_hand or reason is not null);
-- When a source that nothing is planned at is next to be asked.
create index tracker_due_at_source on batch.tracker (source, next_plan_at);
-- Calls for volumes that are under way, and those of somebody who is gone.
create index volume_check_asked on batch.volume_check (call) where status = 'asked';
-- The list of tokens, newest first.
create index token_by_time on platform.token (created_at desc, id desc);
