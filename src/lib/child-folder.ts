/**
 * The folder in which child processes start. A command runs in whatever folder its user happens to be, such as one with a
 * customer's recordings: no file there may become a program, a library or a setting of a child.
 */
export const CHILD_FOLDER = "/";
