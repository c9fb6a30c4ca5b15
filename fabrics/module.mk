# Sources of fabrics/.
