/** Variables that say something together, or the same thing. */
export interface VariableRow {
  readonly names: readonly string[];
  readonly about: string;
}

/** What the program reads of its environment; `asp serve` has one more for each of its flags. */
export const ENVIRONMENT_VARIABLES: readonly VariableRow[] = [
  { names: ['ASP_PROFILE'], about: "which service: a profile's name, or a base URL" },
  { names: ['ASP_AGENT'], about: 'which agent to act as' },
  { names: ['ASP_TOKEN', 'ASP_WS_TOKEN'], about: 'access tokens for the REST API and the WebSocket' },
  {
    names: ['ASP_CLIENT_ID', 'ASP_CLIENT_SECRET', 'ASP_CLIENT_SECRET_FILE'],
    about: 'a client bound to one agent; the secret may stand in a file',
  },
  { names: ['ASP_TOKEN_STORE'], about: 'where logins are kept: keychain or file' },
  { names: ['ASP_STORE_PASSPHRASE'], about: 'encrypts the file store' },
  { names: ['ASP_FORMAT'], about: 'output format: json, jsonl or text' },
  { names: ['ASP_TIMEOUT', 'ASP_RETRIES'], about: 'deadline of a command; tries after the first' },
  { names: ['ASP_NO_INPUT'], about: 'never ask' },
  { names: ['ASP_DEBUG'], about: 'trace HTTP and WebSocket on stderr, redacted' },
  {
    names: ['NO_COLOR', 'FORCE_COLOR', 'CLICOLOR', 'CLICOLOR_FORCE', 'TERM'],
    about: 'colour: the flag, then NO_COLOR, then what forces it, then the terminal',
  },
  { names: ['ACCESSIBLE'], about: 'static text instead of redrawn lines' },
  { names: ['BROWSER', 'VISUAL', 'EDITOR'], about: 'programs that are started for you' },
  { names: ['HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY'], about: "proxies; this machine's own addresses never use one" },
  { names: ['NODE_EXTRA_CA_CERTS'], about: 'a file of certificate authorities that Node.js trusts too' },
  { names: ['npm_config_registry'], about: 'which registry asp version --check asks' },
  {
    names: ['XDG_CONFIG_HOME', 'XDG_STATE_HOME', 'XDG_DATA_HOME', 'XDG_RUNTIME_DIR'],
    about: 'where files are kept',
  },
];
