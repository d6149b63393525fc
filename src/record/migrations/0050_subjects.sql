-- The audit log named people by their addresses, where a call did, and held them also when they were erased. It names
-- them by their ids now, and the addresses that it has go.
update change set subject = trim(regexp_replace(subject, '\S*(@|%40)\S*', '', 'g'))
where action ~ '\{(email_or_id|id_or_email)\}' and subject ~ '@|%40';
