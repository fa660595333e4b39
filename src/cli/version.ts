declare const ASP_VERSION: string | undefined;

/** The version of this program, inserted by the build. */
export const VERSION: string = typeof ASP_VERSION === 'string' ? ASP_VERSION : '0.0.0';
