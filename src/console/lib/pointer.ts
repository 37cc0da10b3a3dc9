/** Whether this device has something with which files can be dragged, such as a mouse. A phone has not. */
export const canDrop: boolean = matchMedia("(any-hover: hover)").matches;
