# Sources of kernels/.
