import * as z from 'zod/mini';

/** Authorization server metadata, the fields that are used here (spec: Discovery; wire: OAuth). */
export const ServerMetadata = z.looseObject({
  /** If it is absent, the issuer is the address that the metadata was read from: the specification does not list it. */
  issuer: z.optional(z.string()),
  authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  registration_endpoint: z.optional(z.string()),
  revocation_endpoint: z.optional(z.string()),
  jwks_uri: z.optional(z.string()),
  grant_types_supported: z.optional(z.array(z.string())),
  response_types_supported: z.optional(z.array(z.string())),
  scopes_supported: z.optional(z.array(z.string())),
  code_challenge_methods_supported: z.optional(z.array(z.string())),
  token_endpoint_auth_methods_supported: z.optional(z.array(z.string())),
  authorization_response_iss_parameter_supported: z.optional(z.boolean()),
  client_id_metadata_document_supported: z.optional(z.boolean()),
  resource_servers: z.optional(z.array(z.looseObject({ resource: z.string() }))),
});

export type ServerMetadata = z.infer<typeof ServerMetadata>;

/** Protected resource metadata (RFC 9728 §2; wire: OAuth). */
export const ResourceMetadata = z.looseObject({
  resource: z.string(),
  authorization_servers: z.optional(z.array(z.string())),
  scopes_supported: z.optional(z.array(z.string())),
  bearer_methods_supported: z.optional(z.array(z.string())),
  /** (wire: Sessions, epochs) */
  epoch: z.optional(z.string()),
});

export type ResourceMetadata = z.infer<typeof ResourceMetadata>;

/** Body of POST /register (spec; RFC 7591 §2). Other members are ignored, as that RFC requires. */
export const RegistrationRequest = z.looseObject({
  client_name: z.optional(z.string().check(z.maxLength(200))),
  redirect_uris: z.array(z.string().check(z.maxLength(2048))).check(z.minLength(1), z.maxLength(10)),
  grant_types: z.optional(z.array(z.string())),
  response_types: z.optional(z.array(z.string())),
  token_endpoint_auth_method: z.optional(z.string()),
  scope: z.optional(z.string().check(z.maxLength(1000))),
});

export type RegistrationRequest = z.infer<typeof RegistrationRequest>;

/**
 * A client ID metadata document: the registration of a client at the URL that is its id. Unknown members are ignored.
 */
export const ClientDocument = z.looseObject({
  client_id: z.string(),
  client_name: z.optional(z.string().check(z.maxLength(200))),
  client_secret: z.optional(z.unknown()),
  redirect_uris: z.array(z.string().check(z.maxLength(2048))).check(z.minLength(1), z.maxLength(50)),
  grant_types: z.optional(z.array(z.string())),
  token_endpoint_auth_method: z.optional(z.string()),
  scope: z.optional(z.string().check(z.maxLength(1000))),
});

export type ClientDocument = z.infer<typeof ClientDocument>;

/** Answer of POST /register (RFC 7591 §3.2.1). */
export const RegistrationReply = z.looseObject({
  client_id: z.string().check(z.minLength(1)),
  client_id_issued_at: z.optional(z.int()),
});

export type RegistrationReply = z.infer<typeof RegistrationReply>;

/** Success of POST /token (spec: POST /token); `expires_in` in seconds; `agent_handle` without its `@` (wire: OAuth). */
export const TokenReply = z.looseObject({
  access_token: z.string().check(z.minLength(1)),
  token_type: z.string(),
  expires_in: z.number(),
  scope: z.optional(z.string()),
  refresh_token: z.optional(z.string()),
  agent_handle: z.optional(z.string()),
});

export type TokenReply = z.infer<typeof TokenReply>;

/** Claims of an access token (spec: Access token claims; `client_id`: RFC 9068 §2.2). An account token has no `agent_id`. */
export const AccessTokenClaims = z.looseObject({
  iss: z.string(),
  sub: z.string(),
  agent_id: z.optional(z.string()),
  azp: z.string(),
  client_id: z.optional(z.string()),
  scope: z.string(),
  aud: z.union([z.string(), z.array(z.string())]),
  iat: z.int(),
  exp: z.int(),
  token_type: z.literal('access'),
});

export type AccessTokenClaims = z.infer<typeof AccessTokenClaims>;

/** The body of an OAuth error answer (RFC 6749 §5.2). */
export const OAuthErrorBody = z.looseObject({
  error: z.string(),
  error_description: z.optional(z.string()),
});

export type OAuthErrorBody = z.infer<typeof OAuthErrorBody>;
