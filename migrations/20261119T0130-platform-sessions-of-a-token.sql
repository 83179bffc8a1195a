-- A token keeps its newest hundred sessions: whoever signs in looks for older ones.
create index session_of_token on platform.session (token_id, expires_at);
