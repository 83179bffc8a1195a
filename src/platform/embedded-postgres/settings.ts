/** PostgreSQL's settings as words of its command line, where no file in the cluster can undo them. */
export function postmasterSettings(overrides: Readonly<Record<string, string>>): string[] {
  return Object.entries({ ...settings, ...overrides }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

const settings = {
  // Loopback only, and a socket file where there is a place for one.
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  unix_socket_permissions: '0700',
  password_encryption: 'scram-sha-256',
  max_connections: '200',
  shared_buffers: '128MB',

  // What was committed stays committed, also across a power cut.
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',

  // A session whose client vanished gives its locks back within about ten seconds.
  tcp_keepalives_idle: '5',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '3',

  // Short statements gain nothing from compilation.
  jit: 'off',
  timezone: 'UTC',

  // No value of a caller reaches the log. An ERROR may quote one in its very message ('invalid input syntax for type
  // integer: "…"'), so the log takes only LOG, FATAL and PANIC: what concerns the server itself.
  log_destination: 'stderr',
  logging_collector: 'off',
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_statement: 'none',
  log_min_duration_statement: '-1',
  log_parameter_max_length: '0',
  log_parameter_max_length_on_error: '0',
  log_checkpoints: 'off',
  log_timezone: 'UTC',
  log_line_prefix: '%m [%p] ',
} as const
