-- A comparison of books that failed says why, in words for an operator.
alter table billing.reconciliation add column reason text;
