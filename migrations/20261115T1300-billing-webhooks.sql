-- News from the provider, stored before it is acted on, and the switch that stops all charging.

create table billing.webhook (
  provider     text not null,                   -- whose event it is: ids of one say nothing about another's
  event_id     text not null,
  body_hash    bytea not null,                  -- sha256 of the raw body; stays
  sealed       bytea,                           -- the body itself, sealed; erased after 90 days
  type         text not null,                   -- the provider's own word
  claim        text check (claim in ('paid', 'declined', 'changed')),  -- what it says of the payment; null: of no interest
  reference    text,                            -- our payment, by its reference at the provider
  provider_payment text,                        -- the same by the provider's own id, where it is all that an event names
  status       text not null check (status in ('waiting', 'done', 'ignored', 'failed')),
  tries        integer not null default 0,
  last_error   text,                            -- type of the last failure; never its words
  received_at  timestamptz not null,            -- service time
  settled_at   timestamptz,                     -- service time
  next_lookup_at      timestamptz not null,            -- real time of the next look
  primary key (provider, event_id),             -- an event has its effect once, for ever: this row is never removed
  check (status <> 'waiting' or reference is not null or provider_payment is not null)
) with (fillfactor = 80);
create index webhook_waiting on billing.webhook (next_lookup_at) where status = 'waiting';
create index webhook_failed on billing.webhook (received_at) where status = 'failed';
create index webhook_body on billing.webhook (received_at) where sealed is not null;
create index webhook_body_of on billing.webhook (reference) where sealed is not null and reference is not null;

create function billing.keep_webhook() returns trigger language plpgsql as $$
begin
  if (new.provider, new.event_id, new.body_hash, new.type)
     is distinct from (old.provider, old.event_id, old.body_hash, old.type) then
    raise exception 'a stored event changes only in what became of it' using errcode = 'restrict_violation';
  end if;
  return new;
end $$;
create trigger webhook_is_kept before update on billing.webhook
  for each row execute function billing.keep_webhook();
create trigger webhook_stays before delete on billing.webhook
  for each row execute function billing.refuse_change();

-- A hint may name a payment by the provider's id.
create index payment_by_provider_id on billing.payment (provider_id) where provider_id is not null;

-- Present: nothing is charged until an operator has looked. Written when the provider speaks of real money in a sandbox, and
-- when it refuses our own credentials.
create table billing.charging_stop (
  provider    text primary key,                 -- '*': all of them
  stopped_at  timestamptz not null,
  cause       text not null,
  -- Stopped by an operator: nothing falls due by the clock either, so that a restored database ends and renews nobody
  -- before it knows what it has forgotten.
  holds_due   boolean not null default false
);

-- What an exported history brought back after a restore; each line once.
create table billing.history_applied (
  line        text primary key,                -- 'event:evt_1', 'token:tok_1', 'trial:acct_1'
  applied_at  timestamptz not null
);
