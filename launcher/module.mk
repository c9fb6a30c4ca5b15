# Sources of launcher/.
