-- Billing. One row per obligation, and a constraint behind every "once".

create schema billing;

-- Refuses what must never happen to a row that is history.
create function billing.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% rows are never changed or removed', tg_table_name using errcode = 'restrict_violation';
end $$;

-- Names this installation in what it asks of a provider. Made once, in every dump, never changed: a restored database
-- asks with the keys it used before.
create table billing.installation (
  one                  boolean primary key default true check (one),
  id                   text not null default replace(gen_random_uuid()::text, '-', ''),
  lookup_first_before  timestamptz             -- service time: what fell due by then may have been sent by a database since lost
);
insert into billing.installation default values;

create function billing.keep_installation() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' or new.id <> old.id then
    raise exception 'the installation keeps its id' using errcode = 'restrict_violation';
  end if;
  return new;
end $$;
create trigger installation_is_kept before update or delete on billing.installation
  for each row execute function billing.keep_installation();

-- The provider's key and reference of the n-th attempt to collect a period: a pure function of its place. Letters, digits
-- and underscores, 43 of them, which every provider takes.
create function billing.charge_reference(subscription_id text, k integer, attempt integer) returns text
language sql stable as $$
  select 'rl_' || left(encode(sha256(convert_to(
    concat_ws(' ', 'charge', i.id, charge_reference.subscription_id, charge_reference.k, charge_reference.attempt),
    'UTF8')), 'hex'), 40)
  from billing.installation i
$$;

-- The same of the n-th refund of a payment.
create function billing.refund_reference(payment_reference text, n integer) returns text
language sql immutable as $$
  select 'rl_' || left(encode(sha256(convert_to(concat_ws(' ', 'refund', payment_reference, n), 'UTF8')), 'hex'), 40)
$$;

create table billing.account (
  id             text primary key,
  time_zone      text not null,
  language       text check (language in ('en', 'ko')),  -- of its invoices; null is the installation's
  invoice_count  integer not null default 0 check (invoice_count >= 0),  -- number of the newest invoice, under row lock
  created_at     timestamptz not null,
  erased_at      timestamptz
) with (fillfactor = 80);

-- Who the account is, apart from what it owes: sealed, and gone when the account is erased.
create table billing.account_contact (
  account_id  text primary key references billing.account,
  sealed      bytea not null,
  updated_at  timestamptz not null
);

create table billing.plan (
  id              text primary key,
  name            text not null,
  amount          bigint not null check (amount >= 1),
  currency        text not null,
  interval_unit   text not null check (interval_unit in ('day', 'week', 'month', 'year')),
  interval_count  integer not null check (interval_count between 1 and 1000),
  trial_days      integer not null check (trial_days between 0 and 3650),
  active          boolean not null,
  updated_at      timestamptz not null
);

create table billing.subscription (
  id                 text primary key,
  account_id         text not null references billing.account,
  plan_id            text not null references billing.plan,
  -- Terms as they were when it started; editing the plan or the account's zone changes no running subscription.
  description        text not null,
  amount             bigint not null check (amount >= 1),
  currency           text not null,
  interval_unit      text not null,
  interval_count     integer not null,
  time_zone          text not null,
  status             text not null
                     check (status in ('incomplete', 'trialing', 'active', 'past_due', 'canceling', 'canceled')),
  anchor             timestamptz not null,
  last_k             integer not null,               -- newest period with a row; -1 before the first
  next_billing_at    timestamptz,
  period_start       timestamptz not null,
  period_end         timestamptz not null,
  trial_ends_at      timestamptz,
  cancel_at          timestamptz,
  canceled_at        timestamptz,
  cancel_code        text,                           -- why, in our words
  cancel_note        text,                           -- why, in the caller's words; erasable
  payment_method_id  text,
  created_at         timestamptz not null,
  check ((status = 'canceled') = (canceled_at is not null)),
  check ((status = 'canceled') = (next_billing_at is null)),
  check (status <> 'canceling' or cancel_at is not null),
  check (status not in ('active', 'past_due', 'incomplete') or payment_method_id is not null)
) with (fillfactor = 70);
create unique index subscription_one_live on billing.subscription (account_id) where status <> 'canceled';
create index subscription_by_account on billing.subscription (account_id, id desc);
create index subscription_due on billing.subscription (next_billing_at) where status in ('active', 'trialing');
create index subscription_trial_end on billing.subscription (next_billing_at)
  where status = 'trialing' and payment_method_id is null;
create index subscription_ending on billing.subscription (cancel_at) where status = 'canceling';

-- Nothing deletes or changes these rows: a trial is once per account for ever.
create table billing.trial_grant (
  account_id       text primary key,
  subscription_id  text not null,
  plan_id          text not null,
  granted_at       timestamptz not null
);
create trigger trial_grant_stays before update or delete on billing.trial_grant
  for each row execute function billing.refuse_change();
create trigger trial_grant_stays_whole before truncate on billing.trial_grant
  for each statement execute function billing.refuse_change();

-- A card, or the one-time key that will become one.
create table billing.payment_method (
  id               text primary key,
  account_id       text not null references billing.account,
  subscription_id  text not null references billing.subscription,
  provider         text not null,                    -- who stored it; whoever is asked about it is asked there
  purpose          text not null check (purpose in ('first', 'trial', 'replacement')),
  state            text not null check (state in ('pending', 'kept', 'dropped')),
  sealed           bytea,                            -- null once dropped or erased
  exchanged        boolean not null,                 -- false: `sealed` holds a one-time key
  issued           boolean not null default false,   -- got in exchange for a one-time key: nobody else knows it
  key_hash         bytea,                            -- tells whether two cards are the same; null while not exchanged
  brand            text,
  last4            text,
  expires          text,
  plan_id          text,                             -- the plan a trial goes on with
  failure          text,                             -- why it was dropped
  next_lookup_at          timestamptz,                      -- real time: when the sweep may take a pending one up
  created_at       timestamptz not null
);
create index payment_method_pending on billing.payment_method (next_lookup_at) where state = 'pending' and next_lookup_at is not null;
create index payment_method_by_account on billing.payment_method (account_id);
create index payment_method_by_key on billing.payment_method (key_hash) where state <> 'dropped' and key_hash is not null;

-- Cards that nobody uses any more and the provider still stores. A row goes once the provider has deleted its card.
create table billing.card_to_delete (
  payment_method_id text primary key references billing.payment_method,
  account_id       text not null,
  provider         text not null,
  sealed           bytea not null,                   -- as in the payment method, and bound to its id
  key_hash         bytea,
  tries            integer not null default 0,
  created_at       timestamptz not null,             -- service time
  next_try_at      timestamptz not null              -- real time
);
create index card_to_delete_due on billing.card_to_delete (next_try_at);

-- Cards about to be collected in a browser. A customer key is what the provider calls the account: a card that comes with
-- one is taken from the account it was given to, and from nobody else.
create table billing.setup (
  id            text primary key,
  account_id    text not null references billing.account,
  provider      text not null,
  customer_key  text,                               -- null until the provider has answered, and once erased
  created_at    timestamptz not null
);
create index setup_by_account on billing.setup (account_id, provider, id desc) where customer_key is not null;

-- The pictures that stand on invoices, by the SHA-256 of their bytes. An invoice names the one it was issued with.
create table billing.seller_logo (
  sha256   text primary key,
  content  bytea not null
);

create table billing.invoice (
  id               text primary key,
  account_id       text not null references billing.account,
  subscription_id  text not null references billing.subscription,
  number           integer not null check (number >= 1),
  description      text not null,
  amount_due       bigint not null check (amount_due >= 1),
  currency         text not null,
  period_start     timestamptz not null,
  period_end       timestamptz not null,
  issued_at        timestamptz not null,
  issued_late      boolean not null default false,   -- written more than a day after the date it bears
  seller           jsonb not null default '{}',      -- who sells, as it was when this was issued
  status           text not null
                   check (status in ('open', 'paid', 'partially_refunded', 'refunded', 'uncollectible', 'void')),
  amount_paid      bigint not null default 0,
  amount_refunded  bigint not null default 0,
  paid_at          timestamptz,
  hold             text check (hold in ('missed')),
  attempt_count    integer not null default 0,
  first_failed_at  timestamptz,
  dunning          text check (dunning in ('retry', 'give_up')),
  due_at           timestamptz,                      -- when dunning acts next; null while an attempt is open
  apart            text generated always as (case when status not in ('open', 'paid') then status end) stored,
  unique (account_id, number),
  check (amount_refunded between 0 and amount_paid and amount_paid <= amount_due),
  check (due_at is null or (status = 'open' and dunning is not null))
) with (fillfactor = 70);
create index invoice_by_account on billing.invoice (account_id, id desc);
create index invoice_by_subscription on billing.invoice (subscription_id, id desc);
create index invoice_due on billing.invoice (due_at) where due_at is not null;
create index invoice_held on billing.invoice (id) where hold is not null;
-- Lists by status. None of them changes when an open invoice is paid, which is what happens to nearly all.
create index invoice_dunned on billing.invoice (id) where due_at is not null;
-- Lists up to a day read back from that day by id, which tells when an invoice was written, and these besides.
create index invoice_late on billing.invoice (id) where issued_late;
create index invoice_apart on billing.invoice (apart, id desc) where apart is not null;

create function billing.keep_invoice() returns trigger language plpgsql as $$
begin
  if (new.id, new.account_id, new.subscription_id, new.number, new.description, new.amount_due, new.currency,
      new.period_start, new.period_end, new.issued_at, new.seller)
     is distinct from
     (old.id, old.account_id, old.subscription_id, old.number, old.description, old.amount_due, old.currency,
      old.period_start, old.period_end, old.issued_at, old.seller) then
    raise exception 'an issued invoice changes only in status and totals' using errcode = 'restrict_violation';
  end if;
  return new;
end $$;
create trigger invoice_is_kept before update on billing.invoice
  for each row execute function billing.keep_invoice();
create trigger invoice_stays before delete on billing.invoice
  for each row execute function billing.refuse_change();

-- The only thing that may be charged: period k of a subscription, once.
create table billing.period (
  subscription_id  text not null references billing.subscription,
  k                integer not null check (k >= 0),
  start_at         timestamptz not null,
  end_at           timestamptz not null,
  invoice_id       text not null unique references billing.invoice,
  primary key (subscription_id, k),
  check (start_at < end_at)
);

-- An attempt to take an invoice's amount.
create table billing.payment (
  id                 text primary key,
  provider_reference text not null unique,           -- key and reference at the provider: billing.charge_reference
  invoice_id         text not null references billing.invoice,
  attempt            integer not null check (attempt >= 1),
  subscription_id    text not null references billing.subscription,
  account_id         text not null,
  payment_method_id  text not null,
  provider           text not null,                  -- charged, looked up and refunded there
  amount             bigint not null check (amount >= 1),
  currency           text not null,
  status             text not null check (status in ('sending', 'unknown', 'succeeded', 'failed')),
  code               text,                           -- why it failed
  provider_id        text,
  captured           bigint not null default 0,
  refunded           bigint not null default 0 check (refunded >= 0),
  refund_pending     bigint not null default 0 check (refund_pending >= 0),
  unmatched              boolean not null default false, -- money that pays for nothing and goes back in full
  settled_by_hand    bigint not null default 0,      -- of unmatched money: put right elsewhere
  dispute_status     text check (dispute_status in ('open', 'won', 'lost')),
  dispute_amount     bigint check (dispute_amount > 0),
  dispute_opened_at  timestamptz,
  dispute_closed_at  timestamptz,
  dispute_lookup_at  timestamptz,                    -- service time at which an open one is looked up, should nobody tell of its end
  dispute_lost       bigint not null default 0 check (dispute_lost >= 0),     -- what a lost one took, as the ledger has it
  dispute_postings   integer not null default 0,     -- transfers posted for it so far; numbers the next one
  disputed           boolean not null generated always as (coalesce(dispute_status <> 'won', false)) stored,
  created_at         timestamptz not null,
  sent_at            timestamptz,                    -- service time of the first send; null: certainly not sent yet
  settled_at         timestamptz,
  sending_until      timestamptz,                    -- real time: while it lasts, its sender may still be at it
  next_lookup_at            timestamptz,                    -- real time of the next look
  lookup_by           timestamptz,                    -- service time by which it must be looked at
  lookup_count              integer not null default 0,
  unanswered         boolean not null default false, -- nobody answered the last lookup or send: due as soon as the provider does
  not_found_count         integer not null default 0,     -- lookups that found nothing after the key window had closed
  not_found_since         timestamptz,                    -- service time of the first of them
  resend_declines    integer not null default 0,     -- re-sends in a row that got the same "no" while lookups found nothing
  resend_code        text,                           -- that "no"
  resend_since       timestamptz,                    -- service time of the first of them
  unique (invoice_id, attempt),
  check (captured in (0, amount)),
  check (refunded + refund_pending <= captured),
  check ((status in ('sending', 'unknown')) = (settled_at is null)),
  check ((status in ('sending', 'unknown')) = (next_lookup_at is not null)),
  check ((dispute_status is null) = (dispute_opened_at is null) and (dispute_status is null) = (dispute_amount is null)),
  check (coalesce(dispute_status = 'open', false) = (dispute_lookup_at is not null))
) with (fillfactor = 70);
-- Money that pays for nothing and has not gone back, however it was tried; small, because most goes back at once.
create index payment_unmatched on billing.payment (id)
  where unmatched and captured <> refunded + settled_by_hand + dispute_lost;
create index payment_dispute_open on billing.payment (dispute_lookup_at) where dispute_status = 'open';
create index payment_by_time on billing.payment (created_at);
create unique index payment_one_open on billing.payment (invoice_id) where status in ('sending', 'unknown');
create unique index payment_one_succeeded on billing.payment (invoice_id) where status = 'succeeded' and not unmatched;
create index payment_look on billing.payment (next_lookup_at) where status in ('sending', 'unknown') and sent_at is not null;
-- After an outage these are as many as in any wave, and nobody in doubt stands behind them.
create index payment_unsent on billing.payment (next_lookup_at) where status in ('sending', 'unknown') and sent_at is null;
create index payment_check on billing.payment (lookup_by) where status in ('sending', 'unknown') and lookup_by is not null;
create index payment_unanswered on billing.payment (provider, next_lookup_at) where status in ('sending', 'unknown') and unanswered;

-- What a customer has to do before a payment takes anything. It goes once the payment is decided, one way or the other.
create table billing.next_action (
  payment_id       text primary key references billing.payment,
  invoice_id       text not null unique references billing.invoice,
  subscription_id  text not null,
  sealed           bytea not null,                   -- where or with what secret it is confirmed
  expires_at       timestamptz not null              -- service time at which the payment is ended at the provider
);
create index next_action_by_subscription on billing.next_action (subscription_id);

create table billing.refund (
  id             text primary key,
  payment_id     text not null references billing.payment,
  n              integer check (n >= 1),             -- the n-th that we asked for; null: made at the provider
  provider_reference text unique,                    -- key and reference at the provider: billing.refund_reference
  invoice_id     text not null references billing.invoice,
  account_id     text not null,
  amount         bigint not null check (amount >= 1),
  currency       text not null,
  reason         text check (reason in ('duplicate', 'fraudulent', 'requested_by_customer', 'other')),
  note           text,                               -- the caller's words; erasable
  origin         text not null check (origin in ('request', 'unmatched', 'provider')),
  status         text not null check (status in ('pending', 'succeeded', 'failed')),
  step           text check (step in ('queued', 'sending', 'unknown', 'accepted')),
  code           text,                               -- why it failed
  created_at     timestamptz not null,
  sent_at        timestamptz,
  remaining      bigint,                             -- what was left of the payment at the first send, which every send says
  settled_at     timestamptz,
  sending_until  timestamptz,
  next_lookup_at        timestamptz,
  lookup_by       timestamptz,
  lookup_count          integer not null default 0,
  unanswered     boolean not null default false,
  not_found_count     integer not null default 0,
  not_found_since     timestamptz,
  resend_declines integer not null default 0,
  resend_code    text,
  resend_since   timestamptz,
  unique (payment_id, n),
  check ((n is null) = (provider_reference is null)),
  check (n is not null or origin = 'provider'),
  check ((status = 'pending') = (step is not null)),
  check ((status = 'pending') = (next_lookup_at is not null))
);
create unique index refund_one_sent on billing.refund (payment_id) where step in ('sending', 'unknown');
create index refund_by_payment on billing.refund (payment_id, id);
create index refund_by_invoice on billing.refund (invoice_id, id);
create index refund_look on billing.refund (next_lookup_at) where status = 'pending';
create index refund_unanswered on billing.refund (next_lookup_at) where status = 'pending' and unanswered;
create index refund_check on billing.refund (lookup_by) where status = 'pending' and lookup_by is not null;

-- When a provider that does not answer is tried next, by whichever process comes first. Real time.
create table billing.provider_probe (
  provider  text primary key,
  next_at   timestamptz not null
);

-- Unmatched money that an operator gave back by other means, or that was otherwise put right.
create table billing.unmatched_settlement (
  payment_id  text not null references billing.payment,
  n           integer not null check (n >= 1),       -- almost always 1; a refund that bounces later may need another
  amount      bigint not null check (amount <> 0),   -- negative: of what went back twice, one was recovered
  note        text,                                  -- the operator's words; erasable
  actor       text not null,
  at          timestamptz not null,
  primary key (payment_id, n)
);

-- Double entry: every transfer moves money between books and sums to zero.
create table billing.ledger_transfer (
  id           bigint generated always as identity primary key,
  cause        text not null unique,                 -- 'payment:pay_1', 'refund:ref_1': a fact is posted once
  account_id   text not null,
  currency     text not null,
  occurred_at  timestamptz not null
);
create index ledger_transfer_by_time on billing.ledger_transfer (occurred_at);

create table billing.ledger_entry (
  transfer_id  bigint not null references billing.ledger_transfer,
  book         text not null check (book in ('provider', 'revenue', 'refunds', 'unclaimed', 'disputes', 'settlements')),
  amount       bigint not null check (amount <> 0),  -- a debit is positive
  primary key (transfer_id, book)
);

create function billing.require_balance() returns trigger language plpgsql as $$
begin
  if (select sum(amount) from billing.ledger_entry where transfer_id = new.transfer_id) <> 0 then
    raise exception 'ledger transfer % does not sum to zero', new.transfer_id using errcode = 'check_violation';
  end if;
  return null;
end $$;
create constraint trigger ledger_balances after insert on billing.ledger_entry
  deferrable initially deferred for each row execute function billing.require_balance();

create function billing.require_entries() returns trigger language plpgsql as $$
begin
  if not exists (select from billing.ledger_entry where transfer_id = new.id) then
    raise exception 'ledger transfer % moves nothing', new.id using errcode = 'check_violation';
  end if;
  return null;
end $$;
create constraint trigger ledger_moves after insert on billing.ledger_transfer
  deferrable initially deferred for each row execute function billing.require_entries();

create trigger ledger_transfer_stays before update or delete on billing.ledger_transfer
  for each row execute function billing.refuse_change();
create trigger ledger_entry_stays before update or delete on billing.ledger_entry
  for each row execute function billing.refuse_change();
create trigger ledger_transfer_stays_whole before truncate on billing.ledger_transfer
  for each statement execute function billing.refuse_change();
create trigger ledger_entry_stays_whole before truncate on billing.ledger_entry
  for each statement execute function billing.refuse_change();

-- What happened, written in the transaction in which it happened.
create table billing.event (
  id               text primary key,
  type             text not null,
  account_id       text not null,
  subscription_id  text,
  occurred_at      timestamptz not null,
  data             jsonb not null                    -- ids and codes; never personal data
);
create index event_by_account on billing.event (account_id, id desc);
create index event_by_subscription on billing.event (subscription_id, id);
create trigger event_stays before update or delete on billing.event
  for each row execute function billing.refuse_change();
