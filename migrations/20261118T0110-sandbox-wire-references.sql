-- A notification finds its intent by the merchant's reference; the index over whole bodies answers that slowly while they change.
create index wire_object_reference on sandbox.wire_object (wire, kind, (body ->> 'reference'), created_at, id)
  where body ->> 'reference' is not null;
